// Exports a compiled kernel as C: a header, and a source file that holds the image and launches it, and needs
// only the driver.
#pragma once

#include <string>
#include <vector>

#include "ptxbuilder/signature.h"

namespace ptxbuilder::command {

// One configuration of a kernel.
struct ExportedKernel {
  Signature signature;
  std::string image;           // a cubin, or PTX text that the driver compiles
  std::string ptx = {};        // PTX text for the emulator, in addition to a cubin
  std::string condition = {};  // a launch rule; the first kernel whose condition is not 0 is launched
};

// A problem size for which the kernel is determined.
struct ExportedShape {
  std::vector<uint64_t> size;  // has as many elements as Export::axes
  size_t kernel = 0;           // index of the kernel
  std::string caution = {};    // a warning about its launches
};

struct Export {
  std::string name;  // prefix of the functions: NAME_launch
  std::string summary;
  // All kernels have the same parameters. If there are no shapes, all kernels except the last have a
  // condition.
  std::vector<ExportedKernel> kernels;
  // If there are shapes, a launch uses the kernel of the nearest one, which is the first with the smallest
  // sum of |log2(a / b)| over the axes. The axes are launch rules ("M").
  std::vector<std::string> axes = {};
  std::vector<ExportedShape> shapes = {};
};

struct ExportedFiles {
  std::string header, source;  // NAME.h and NAME.c, in C11 that is also valid C++
};

// Throws Error if the name is not an identifier, if kernels have different parameters or a parameter with
// maps in device memory, if a condition is missing, superfluous or not a rule, or if an image is not for
// sm_90a.
void check(const Export& what);
// Returns the files. Throws Error like check().
ExportedFiles export_to_c(const Export& what);

// The C text that does not depend on the kernel: the driver's calls, tensor maps, the nearest shape, and the
// launch.
extern const char *const exported_driver, *const exported_maps, *const exported_nearest,
                                                                    *const exported_launch;

}  // namespace ptxbuilder::command
