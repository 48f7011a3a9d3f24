"""Triton's interpreter stands in where there is no GPU; it has to be chosen before a kernel is defined."""

import os

import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
