"""The lane host: runs requests as streams through shared rounds."""
