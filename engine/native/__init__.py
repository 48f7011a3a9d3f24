"""A step of a decoder as one call into C, for x86-64 with AVX2. See docs/native-kernel.md."""
