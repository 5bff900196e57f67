"""The paper's tables, figures and experiments, run on the data at hand."""
