"""What is a case compared with? The modules, in the order of the work.

`which` says which reference a case has. What executes it is `derived` from the case; `plain_torch`, `plain_pipeline` or
`float32_graph` have it computed in a worker. Its keys are in `stored`, and there it is; who needs it asks `of_case`.
"""
