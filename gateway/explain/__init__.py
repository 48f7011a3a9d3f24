"""Why a request would, or would not, be answered from the cache; calls no model and changes nothing."""
