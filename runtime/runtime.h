// Includes all headers of the runtime, which manages devices, memory and launches. Neither LLVM nor CUDA is
// needed. To compile a kernel for a device, include runtime/compile/load.h.
#pragma once

#include "ptxbuilder/version.h"
#include "runtime/argument.h"
#include "runtime/buffer.h"
#include "runtime/device.h"
#include "runtime/loaded_kernel.h"
#include "runtime/open_device.h"
#include "runtime/perfetto.h"
#include "runtime/profile.h"
#include "runtime/profile_svg.h"
#include "runtime/report.h"
#include "runtime/tensor_map.h"
