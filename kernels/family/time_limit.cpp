#include "kernels/family/time_limit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace ptxbuilder::command {

void add_time_limit(const Arguments& app, double& seconds) {
  app.option("--time-limit", seconds, "seconds that one launch may take")
      .check([](const std::string& word) -> std::string {
        if (std::strtod(word.c_str(), nullptr) > 0) return "";  // this also rejects NaN
        return fmt::format("'{}' must be a number of seconds above 0; without the option the limit is 60",
                           word);
      })
      .shown_as("S");
}

std::chrono::milliseconds time_limit(double seconds) {
  constexpr double kMost = 1e9;  // 31 years
  return std::chrono::milliseconds(static_cast<int64_t>(std::ceil(std::min(seconds, kMost) * 1000)));
}

}  // namespace ptxbuilder::command
