#include "sharding/split.h"

#include <algorithm>
#include <span>

#include "graph/allocate.h"
#include "graph/launch_graph.h"
#include "sharding/geometry.h"
#include "sharding/split_copies.h"
#include "sharding/split_streams.h"
#include "tensors/images.h"

namespace torch_conv {

namespace {

// An image in shards along a dimension.
struct Whole {
  std::vector<Tensor> shards;
  int64_t dim;
  Sizes starts;  // of every shard, and the size of the whole

  int64_t size() const { return starts.back(); }
  int64_t from_end() const { return shards[0].dim() - dim; }
  Range own(size_t i) const { return {starts[i], starts[i + 1]}; }
};

Whole whole_of(const char* op, const std::vector<Tensor>& shards, int64_t dim) {
  check(!shards.empty(), op, "shards must hold at least one tensor");
  const Tensor& first = shards[0];
  const int64_t dims = first.dim();
  check(dim >= -dims && dim < dims, op, "dim must be one of the shards' ", dims, " dimensions, got ", dim);
  Whole w{{}, dim < 0 ? dim + dims : dim, {0}};
  const Sizes expected = sizes_of(first);
  for (const Tensor& t : shards) {
    const Sizes sizes = sizes_of(t);
    bool same = sizes.size() == expected.size();
    for (size_t d = 0; same && d < sizes.size(); ++d) same = int64_t(d) == w.dim || sizes[d] == expected[d];
    if (!same)
      refuse(op, "shards must have the same shape but for dimension ", w.dim, ", got ", shape_text(expected), " and ",
             shape_text(sizes));
    if (t.scalar_type() != first.scalar_type())
      refuse(op, "shards must have the same dtype, got ", dtype_text(first.scalar_type()), " and ",
             dtype_text(t.scalar_type()));
    if (t.is_cuda() != first.is_cuda() || t.is_cpu() != first.is_cpu())
      refuse(op, "shards must all be on the CPU or all on CUDA devices, got ", device_text(first), " and ",
             device_text(t));
    w.shards.push_back(t);
    w.starts.push_back(w.starts.back() + t.size(w.dim));
  }
  return w;
}

// A tensor like shard i of the whole image's sizes, which nothing may read: what a probe is called on.
Tensor without_memory(const Whole& w, size_t i) {
  const Tensor& like = w.shards[i];
  Sizes sizes = sizes_of(like);
  sizes[w.dim] = w.size();
  // A stride for every dimension, so that leading ones merge as they do in the shard.
  return pretend(like, sizes, strides_of(like), like.scalar_type());
}

// Outputs at a shard boundary, and the rows that they read: one range, or two that are no neighbours.
struct Strip {
  Range outputs;
  std::vector<Range> rows;
  int64_t pad;    // of the first output's window, before the first row
  Tensor tensor;  // the rows; what is made of them, where a call makes all
};

void record_streams(const Call& call, const std::vector<Tensor>& tensors, bool several) {
  std::vector<int> shards;
  for (const Tensor& t : tensors) shards.push_back(call.graph->index_of(t));
  call.graph->record([op = call.op, shards, several](Replay& r) {
    std::vector<Tensor> tensors;
    for (int i : shards) tensors.push_back(r.tensor(i));
    r.streams.emplace(Call{op}, tensors, several);
  });
}

// One call along a spatial dimension.
class Spatial {
 public:
  Spatial(const Call& call, int axes, const Whole& whole, const Footprint& call_footprint, const ShardCall& function)
      : call_(call),
        axes_(axes),
        whole_(whole),
        call_footprint_(call_footprint),
        function_(function),
        n_(whole.size()),
        from_end_(whole.from_end()),
        footprint_(call_footprint.axis[kAxes - from_end_]) {}

  std::vector<Tensor> run(const Sizes& wanted) {
    std::vector<Job> jobs;
    for (int64_t i : wanted) jobs.push_back(job_of(size_t(i)));
    streams_.emplace(call_, whole_.shards, jobs.size() > 1);
    if (call_.graph) record_streams(call_, whole_.shards, jobs.size() > 1);
    for (size_t i = 0; i < jobs.size(); ++i)
      if (!jobs[i].done) filter_interior(jobs[i], std::span(jobs).subspan(i));
    std::vector<Strip> strips;  // they live until all streams have what they need
    for (Job& job : jobs)
      if (!job.done) filter_boundaries(job, strips);
    streams_->finish();
    record([](Replay& r) { r.streams->finish(); });
    std::vector<Tensor> results;
    for (const Job& job : jobs) results.push_back(job.result);
    return results;
  }

 private:
  struct Job : Shard {
    size_t index;
    Range outputs, interior;  // all of the shard's; those whose windows stay in its rows, or hang over the image's end
  };

  void record(std::function<void(Replay&)> step) const {
    if (call_.graph) call_.graph->record(std::move(step));
  }
  // What steps know a tensor by.
  int index_of(const Tensor& t) const { return call_.graph ? call_.graph->index_of(t) : 0; }

  int64_t first_row(int64_t output) const { return output * footprint_.stride - footprint_.pad; }
  bool circular() const { return call_footprint_.border == Border::circular; }

  Job job_of(size_t i) const {
    const Range own = whole_.own(i);
    Job job{{&whole_.shards[i], whole_.shards[i]},
            i,
            {outputs_before(own.begin, footprint_, n_), outputs_before(own.end, footprint_, n_)},
            {}};
    job.first = job.outputs.begin;
    Range& u = job.interior = job.outputs;
    if (u.size() > 0 && own.size() < n_) find_interior(job);
    if (u.size() > 0 && u.size() < job.outputs.size()) find_neighbours(job);
    if (u.size() == 0 || !call_footprint_.all_rows || job.above || job.below)
      job.result = result_for(i, job.outputs.size());
    return job;
  }

  void find_interior(Job& job) const {
    const Range own = whole_.own(job.index);
    Range& u = job.interior;
    const bool first = own.begin == 0 && !circular(), last = own.end == n_ && !circular();
    if (!first)
      u.begin = std::max(u.begin, ceil_div(std::max<int64_t>(own.begin + footprint_.pad, 0), footprint_.stride));
    if (!last) u.end = std::min(u.end, floor_div(own.end + footprint_.pad - footprint_.length, footprint_.stride) + 1);
    if (u.begin < u.end) {
      const Range read = rows_read(u, footprint_, n_, call_footprint_.border);
      if (read.begin < own.begin || read.end > own.end) u.end = u.begin;  // repeats rows of another shard
    }
    if (u.begin >= u.end) u = {job.outputs.begin, job.outputs.begin};
  }

  Tensor result_for(size_t i, int64_t outputs) const {
    Sizes sizes = call_footprint_.result;
    sizes[sizes.size() - from_end_] = outputs;
    const Tensor& own = whole_.shards[i];
    return call_footprint_.contiguous || sizes.size() != size_t(own.dim())
               ? allocate(call_, own, sizes, call_footprint_.dtype)
               : empty_result(call_, own, sizes, axes_, call_footprint_.dtype);
  }

  // Kernels may read the neighbour shards where all that windows cover of them is there.
  void find_neighbours(Job& job) const {
    const Tensor& own = *job.own;
    const Range rows = whole_.own(job.index);
    const auto [begin, end] = rows_under(job.outputs, footprint_);
    // Along the first spatial axis: rows of images, planes of volumes.
    if (!call_footprint_.reads_shards || !on_cuda(call_, own) || from_end_ != axes_ || begin > rows.begin) return;
    const auto holds = [&](int64_t row, int64_t count) -> const Tensor* {
      const Tensor& t = whole_.shards[holder_of(map_index(row, n_, Border::circular), whole_.starts)];
      const bool plain = t.size(whole_.dim) >= count && merge_leading(t, Dtype::f32, axes_);
      return plain && can_read(own.get_device_index(), t) ? &t : nullptr;
    };
    const bool above = begin < rows.begin && (rows.begin > 0 || circular());
    const bool below = end > rows.end && (rows.end < n_ || circular());
    const Tensor* above_tensor = above ? holds(rows.begin - 1, rows.begin - begin) : nullptr;
    const Tensor* below_tensor = below ? holds(rows.end, end - rows.end) : nullptr;
    if (above == (above_tensor != nullptr) && below == (below_tensor != nullptr))
      job.above = above_tensor, job.below = below_tensor, job.before = rows.begin - begin, job.behind = end - rows.end;
  }

  Strip strip_of(const Job& job, Range outputs) const {
    const Range read = rows_read(outputs, footprint_, n_, call_footprint_.border);
    Strip strip{outputs, {read}, read.begin - first_row(outputs.begin), *job.own};
    const int64_t above = std::max<int64_t>(0, -read.begin), below = std::max<int64_t>(0, read.end - n_);
    if (circular() && call_footprint_.zeros_outside && above + below > 0) {
      // The strip ends where the image does: rows of both its ends, whose border is that of the image.
      if (above + below + read.size() >= n_) strip.rows = {{0, n_}}, strip.pad = -first_row(outputs.begin);
      else if (above > 0) strip.rows = {{0, read.end}, {n_ - above, n_}}, strip.pad = above;
      else strip.rows = {{0, below}, {read.begin, n_}}, strip.pad = -below;
    }
    return strip;
  }

  // The rows of a strip, shard by shard: f(shard, its first row, rows).
  template <typename F>
  void for_each_piece(const Strip& strip, const F& f) const {
    for (const Range& rows : strip.rows)
      for (const Run& run : runs_of(rows, whole_.starts, Border::circular))
        f(whole_.shards[run.holder], run.first, run.count);
  }

  // The strip's memory, and the rows that go there.
  void lay_out(Strip& strip, RowCopies& copies) const {
    Sizes sizes = sizes_of(strip.tensor);
    sizes[whole_.dim] = 0;
    for (const Range& rows : strip.rows) sizes[whole_.dim] += rows.size();
    strip.tensor = empty_result(call_, strip.tensor, sizes, axes_, strip.tensor.scalar_type());
    int64_t at = 0;
    for_each_piece(strip, [&](const Tensor& shard, int64_t first, int64_t rows) {
      copies.add(strip.tensor, at, shard, first, rows, whole_.dim);
      at += rows;
    });
  }

  int64_t pad_of(const Job& job) const { return whole_.own(job.index).begin - first_row(job.outputs.begin); }

  void filter_interior(Job& job, std::span<Job> jobs) {
    if (job.interior.size() == 0) return;
    const Tensor& own = *job.own;
    const Range rows = whole_.own(job.index);
    if (job.above || job.below) {
      Part part{.axis = int(kAxes - from_end_),
                .pad = pad_of(job),
                .out = job.outputs.size(),
                .first = job.outputs.begin,
                .whole = n_,
                .result = job.result};
      for (Job& other : jobs)  // this one first
        if ((other.above || other.below) && pad_of(other) == part.pad) part.shards.push_back(&other);
      const size_t lines = call_.lines ? call_.lines->size() : 0;
      note(job,
           "its interior and its boundary strips, which read other shards where they lie; and further shards alike");
      on_part(part, own);
      if (job.done) return;
      if (call_.lines) call_.lines->resize(lines);
    }
    note(job, "its interior");
    if (call_footprint_.all_rows) {
      job.result = on_whole(own);  // the strips' outputs come on top
      return;
    }
    // Without the rows in front of the first window: they would make a negative pad, which along y no tile takes.
    const int64_t begin = std::max(rows.begin, rows_read(job.interior, footprint_, n_, call_footprint_.border).begin);
    filter_rows(job, narrow(own, whole_.dim, begin - rows.begin, rows.end - begin),
                begin - first_row(job.interior.begin), job.interior);
  }

  void filter_boundaries(Job& job, std::vector<Strip>& strips) {
    const size_t first = strips.size();
    for (const Range& outputs : {Range{job.outputs.begin, job.interior.begin}, {job.interior.end, job.outputs.end}})
      if (outputs.size() > 0) strips.push_back(strip_of(job, outputs));
    if (strips.size() == first) return;
    note(job, "its boundary strips, from rows that are copied");
    const std::span boundaries = std::span(strips).subspan(first);
    {
      const CurrentStream side(*job.own, begin_boundaries(job, boundaries));
      RowCopies rows;
      for (Strip& strip : boundaries) lay_out(strip, rows);
      rows.run(call_);
      for (Strip& strip : boundaries) {
        if (call_footprint_.all_rows) strip.tensor = on_whole(strip.tensor);
        else filter_rows(job, strip.tensor, strip.pad, strip.outputs);
      }
    }
    streams_->end(*job.own, true);
    record([own = index_of(*job.own)](Replay& r) { r.side.reset(), r.streams->end(r.tensor(own), true); });
    if (!call_footprint_.all_rows) return;
    RowCopies outputs;
    for (const Strip& strip : boundaries)
      outputs.add(job.result, strip.outputs.begin - job.outputs.begin, strip.tensor, footprint_.pad - strip.pad,
                  strip.outputs.size(), strip.tensor.dim() - from_end_);
    outputs.run(call_);
    streams_->keep(*job.own);
    record([own = index_of(*job.own)](Replay& r) { r.streams->keep(r.tensor(own)); });
  }

  // The stream that shard boundaries are made on, once the shards whose rows they read are there.
  void* begin_boundaries(const Job& job, std::span<Strip> boundaries) {
    std::vector<const Tensor*> others;
    std::vector<int> indices;
    for (const Strip& strip : boundaries)
      for_each_piece(strip, [&](const Tensor& shard, int64_t, int64_t) {
        others.push_back(&shard), indices.push_back(index_of(shard));
      });
    record(
        [own = index_of(*job.own), indices](Replay& r) { r.side.emplace(r.tensor(own), r.begin(own, indices, true)); });
    return streams_->begin(*job.own, others, true);
  }

  // `tensor` holds all rows that the outputs read; the first one's window starts `pad` before it.
  void filter_rows(const Job& job, const Tensor& tensor, int64_t pad, Range outputs) {
    const int64_t at = outputs.begin - job.outputs.begin;
    Part part{.axis = int(kAxes - from_end_),
              .pad = pad,
              .out = outputs.size(),
              .first = outputs.begin,
              .whole = n_,
              .result = narrow(job.result, job.result.dim() - from_end_, at, outputs.size())};
    on_part(part, tensor);
  }

  void on_part(Part& part, const Tensor& tensor) {
    Call call = call_.of(&part);
    call.graph = call_.graph, call.streams = &*streams_;
    function_(call, tensor);
  }

  Tensor on_whole(const Tensor& tensor) {
    Call call = call_;
    call.streams = &*streams_;
    return function_(call, tensor);
  }

  // Says in an explanation which lines belong to which shard.
  void note(const Job& job, const char* what) const {
    if (!call_.runs()) Call(call_).explain("shard " + std::to_string(job.index) + ", " + what);
  }

  const Call call_;
  int axes_;
  const Whole& whole_;
  const Footprint& call_footprint_;
  const ShardCall& function_;
  int64_t n_, from_end_;
  AxisFootprint footprint_;
  std::optional<SplitStreams> streams_;
};

}  // namespace

std::vector<Tensor> run_split(const Call& call, int axes, const std::vector<Tensor>& shards, int64_t dim,
                              const std::optional<Sizes>& wanted, const ShardCall& function) {
  const char* op = call.op;
  Whole whole = whole_of(op, shards, dim);
  Sizes indices;
  for (int64_t i = 0; i < int64_t(shards.size()); ++i) indices.push_back(i);
  if (wanted) {
    indices = *wanted;
    for (int64_t i : indices)
      check(i >= 0 && i < int64_t(shards.size()), op, "wanted must name shards 0 to ", shards.size() - 1, ", got ", i);
  }
  for (int64_t i : indices) {  // the leading dimensions must merge, as those of `without_memory` then do
    Tensor& t = whole.shards[i];
    if (dtype_or_none(t.scalar_type()) && t.dim() >= axes && !merge_leading(t, Dtype::f32, axes))
      t = torch::stable::contiguous(t);
  }
  const bool explains = call.purpose == Purpose::explain;
  Call asked{.op = op, .purpose = Purpose::footprint, .of_question = explains, .of_shards = true};
  function(asked, without_memory(whole, indices.empty() ? 0 : indices[0]));
  const Footprint& footprint = asked.footprint;
  Call whole_call = call;
  whole_call.whole = &footprint;
  if (whole.from_end() <= axes) return Spatial(whole_call, axes, whole, footprint, function).run(indices);
  SplitStreams streams(call, whole.shards, indices.size() > 1);
  if (call.graph) record_streams(call, whole.shards, indices.size() > 1);
  std::vector<Tensor> results;
  for (int64_t i : indices) {
    const Range own = whole.own(i);
    const Slice slice{whole.from_end(), own.begin, own.size()};
    if (own.size() > 0) {
      Call of_slice = whole_call.of(&slice);
      of_slice.graph = call.graph, of_slice.streams = &streams;
      results.push_back(function(of_slice, whole.shards[i]));
      continue;
    }
    Sizes sizes = footprint.result;
    sizes[whole.dim] = 0;
    results.push_back(allocate(call, whole.shards[i], sizes, footprint.dtype));
  }
  streams.finish();
  if (call.graph) call.graph->record([](Replay& r) { r.streams->finish(); });
  return results;
}

}  // namespace torch_conv
