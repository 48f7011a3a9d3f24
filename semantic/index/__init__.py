"""The index: nearest stored questions inside one partition or family; derived from rows, rebuilt from them."""
