"""Did the fusions fire?

Each test builds one component and counts its operators by domain and type. What must be there is derived from the
torch module: how many attentions, norms and convolutions it has and how they are wired. Where something is missing,
the test names the module path, the rule that came nearest and the node where it stopped.
"""


def test_every_operator_that_the_model_allows_is_fused(build, expected_counts, fused):
    fused(build, expected_counts)
