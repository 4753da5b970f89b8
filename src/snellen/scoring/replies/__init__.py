"""The text of replies: what is said outside of thinking and markup, its sentences, and the phrases in them."""
