// Exports a compiled kernel as C. The result is a header, and a source file that contains the image and the
// code that launches it. The code needs only the driver.
#pragma once

#include <string>
#include <vector>

#include "ptxbuilder/signature.h"

namespace ptxbuilder::command {

// A configuration of the kernel to export.
struct ExportedKernel {
  Signature signature;
  std::string image;           // a cubin, or PTX text that the driver compiles
  std::string ptx = {};        // PTX text for the emulator, in addition to a cubin
  std::string condition = {};  // a launch rule; a launch uses the first kernel with a nonzero condition
};

// A problem size and the kernel that is used for it.
struct ExportedShape {
  std::vector<uint64_t> size;  // one element for each of Export::axes
  size_t kernel = 0;           // index of the kernel
  std::string caution = {};    // a warning about launches of this size
};

struct Export {
  std::string name;  // prefix of the C functions, such as NAME_launch
  std::string summary;
  // All kernels have the same parameters. If there are no shapes, all kernels except the last have a
  // condition.
  std::vector<ExportedKernel> kernels;
  // If there are shapes, a launch uses the kernel of the nearest shape. The distance of two shapes is the sum
  // of |log2(a / b)| over the axes; if several shapes are equally near, the first one is used. An axis is a
  // launch rule, such as "M".
  std::vector<std::string> axes = {};
  std::vector<ExportedShape> shapes = {};
};

struct ExportedFiles {
  std::string header, source;  // contents of NAME.h and NAME.c, in C11 that is also valid C++
};

// Throws Error if the name is not an identifier, if kernels have different parameters, or if a parameter has
// tensor maps in device memory. Also throws Error if a condition is missing, superfluous or not a rule, or if
// an image is not for sm_90a.
void check(const Export& what);
// Returns the files. Throws Error when check() does.
ExportedFiles export_to_c(const Export& what);

// The parts of the C source that do not depend on the kernel. They contain the calls to the driver, tensor
// maps, the search for the nearest shape, and the launch.
extern const char *const exported_driver, *const exported_maps, *const exported_nearest,
                                                                    *const exported_launch;

}  // namespace ptxbuilder::command
