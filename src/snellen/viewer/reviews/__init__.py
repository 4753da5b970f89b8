"""Review in the browser: the queue of cases, and the view of a case without the names of models and other reviewers."""
