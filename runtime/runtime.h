// Includes the whole runtime: devices, memory and launches. It needs neither LLVM nor CUDA;
// runtime/compile/load.h compiles a kernel for a device.
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
