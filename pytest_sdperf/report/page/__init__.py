"""One self-contained page of results, for `--sdperf-html` and `sdperf report`."""
