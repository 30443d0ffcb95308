#!/bin/sh
# List the commits since the last tag, or all.
last=$(git describe --tags --abbrev=0 2>/dev/null)
git log --format='%s' ${last:+"$last"..HEAD}
