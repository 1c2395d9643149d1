// A compiled kernel as C: a header, and a source that holds the image, launches it, and needs only the
// driver.
#pragma once

#include <string>
#include <vector>

#include "ptxbuilder/signature.h"

namespace ptxbuilder::command {

// One configuration of a kernel.
struct ExportedKernel {
  Signature signature;
  std::string image;           // a cubin, or PTX text, which the driver compiles
  std::string ptx = {};        // text in addition to a cubin, for the emulator
  std::string condition = {};  // a launch rule: the first kernel whose condition is not 0 is launched
};

// A problem whose kernel is known.
struct ExportedShape {
  std::vector<uint64_t> size;  // as long as Export::axes
  size_t kernel = 0;           // its index among the kernels
  std::string caution = {};    // a note about its launches
};

struct Export {
  std::string name;  // of the functions: NAME_launch
  std::string summary;
  // All have the same parameters. Without shapes, all but the last have a condition.
  std::vector<ExportedKernel> kernels;
  // If there are shapes, a launch uses the kernel of the nearest one: the first with the least sum of |log2(a
  // / b)| over the axes, which are launch rules ("M").
  std::vector<std::string> axes = {};
  std::vector<ExportedShape> shapes = {};
};

struct ExportedFiles {
  std::string header, source;  // NAME.h, NAME.c: C11 that is C++ too
};

// Throws Error if the name is not an identifier, if kernels have different parameters or a parameter with
// maps in device memory, if a condition is missing, superfluous or not a rule, or if an image is not for
// sm_90a.
void check(const Export& what);
// Throws as check().
ExportedFiles export_to_c(const Export& what);

// These do not depend on the kernel: the driver's calls, tensor maps, the nearest shape, and the launch.
extern const char *const exported_driver, *const exported_maps, *const exported_nearest,
                                                                    *const exported_launch;

}  // namespace ptxbuilder::command
