"""Is the graph the same function?

Each test builds one component and computes it in float64, by the definitions of its operators: the torch module, its
export, and the build of that. Every epsilon, scale, bias, axis and wire counts at any depth, whatever the precision of
the build; what kernels make of it is the question of `test_agreement.py`.
"""


def test_the_build_is_the_function_of_its_module(build, equivalent):
    equivalent(build)
