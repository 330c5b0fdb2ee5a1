"""Documents become tokens, tokens a cache, and a cache packed batches; numpy, never torch."""
