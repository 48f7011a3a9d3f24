"""What the semantic layer serves of labelled public sets, right and wrong."""
