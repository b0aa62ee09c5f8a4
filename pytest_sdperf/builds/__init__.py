"""Model -> weights -> ONNX -> optimization -> artifact, through a cache."""
