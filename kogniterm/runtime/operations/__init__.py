"""Operations on stored data and settings that verbs and slash commands share."""
