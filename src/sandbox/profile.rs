//! What the model is told about the inputs.
