"""The shell parser: lexer, words, arithmetic and the syntax tree."""
