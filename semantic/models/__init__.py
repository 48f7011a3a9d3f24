"""Encoders: model folders read, tokenised for, and run in ONNX Runtime."""
