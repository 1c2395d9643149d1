// Defines the version of the library, for C and C++. Within a major version (for major version 0, within a
// minor version), the public interface is only extended.
#pragma once

#define PTXBUILDER_VERSION_MAJOR 0
#define PTXBUILDER_VERSION_MINOR 1
#define PTXBUILDER_VERSION_PATCH 0

// The version as a single number, for comparisons: 10000 times the major version plus 100 times the minor
// version plus the patch number.
#define PTXBUILDER_VERSION \
  (10000 * PTXBUILDER_VERSION_MAJOR + 100 * PTXBUILDER_VERSION_MINOR + PTXBUILDER_VERSION_PATCH)
