//! What was learned about an endpoint and a model.
