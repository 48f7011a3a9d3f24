"""Does the ledger say what clients saw and what models were asked?"""
