// The commands below `ptxb tune`, each in a file of its own.
#pragma once

#include "kernels/command/commands.h"

namespace ptxbuilder::bench {

command::Command add_tune_gemm(const command::Arguments& tune);
command::Command add_tune_model(const command::Arguments& tune);
command::Command add_tune_attention(const command::Arguments& tune);

}  // namespace ptxbuilder::bench
