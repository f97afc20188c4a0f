"""The families of benchmarks: what each measures, who competes, and how a figure is made."""
