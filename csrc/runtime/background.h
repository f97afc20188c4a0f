// Threads of low priority, for work that no call waits for.
#pragma once

#include <functional>

namespace torch_conv {

// TORCH_CONV_COMPILE_THREADS, else half of the processors, but at most 4. Throws for other values than 1 to 64.
int background_threads();

// Runs a task on one of few threads, in the order of the requests. Tasks must not throw. False: there can be no thread,
// or this process is the child of a fork() during a task. A child has no tasks of its parent. The end of the process
// drops tasks that have not begun and waits for the others.
bool run_in_background(std::function<void()> task);

// Tasks that run or wait to run.
int tasks_in_background();

// Waits until there are no tasks.
void finish_background();

// Drops tasks that have not begun, and waits for the others. Later requests are dropped, too.
void stop_background();

// Whether stop_background() was called: a task that waits for something else gives up.
bool background_stops();

}  // namespace torch_conv
