// The version of the library, for C and C++. Within a major version, what is public is only added to; of
// major version 0, within a minor one.
#pragma once

#define PTXBUILDER_VERSION_MAJOR 0
#define PTXBUILDER_VERSION_MINOR 1
#define PTXBUILDER_VERSION_PATCH 0

// The version as one number, to compare with: 10000 times the major version, 100 times the minor one, and the
// patch.
#define PTXBUILDER_VERSION \
  (10000 * PTXBUILDER_VERSION_MAJOR + 100 * PTXBUILDER_VERSION_MINOR + PTXBUILDER_VERSION_PATCH)
