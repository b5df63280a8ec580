// Replaced by the room's own sources.
