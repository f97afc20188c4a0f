"""The families of benchmarks: workloads, rivals, and how a time is measured."""
