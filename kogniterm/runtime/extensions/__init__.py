"""Extensions of the user and of trusted projects, in the formats that terminal agents share."""
