"""Tools that rewrite an ONNX graph. Loaded only by the tasks that build: modules here import onnx_ir and numpy."""
