#include "kernels/family/assembling.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>

#include "ptxbuilder/compile/notes.h"

namespace ptxbuilder::command {

void add_waive(const Arguments& app, std::vector<std::string>& waived) {
  app.option("--waive", waived,
             "accept an advisory of ptxas, such as C7510, spills or stack, or a defect that it may have; may "
             "be repeated")
      .check([](const std::string& word) -> std::string {
        const std::vector<std::string> names = waiver_names();
        // Codes of this form are accepted even if they are not in the list, because check() accepts every
        // code that ptxas prints.
        if (word.starts_with("C75") || std::find(names.begin(), names.end(), word) != names.end()) return "";
        return fmt::format("'{}' cannot be waived; {} can", word, fmt::join(names, ", "));
      })
      .shown_as("CODE");
}

void tell_cache_problem(const Assembled& assembled) {
  static std::atomic<bool> is_told = false;
  if (assembled.cache_problem.empty() || is_told.exchange(true)) return;
  fmt::print(stderr,
             "warning: cubins are not kept, and are assembled anew each time: {}; name another folder with "
             "--cache-dir, or pass --no-cache\n",
             assembled.cache_problem);
}

void tell_defects(const Assembled& assembled) {
  static std::mutex mutex;
  static std::set<std::string_view> told;
  const std::lock_guard lock(mutex);
  for (const PossibleDefect& d : assembled.defects)
    if (told.insert(d.defect.name).second) fmt::print(stderr, "warning: {}\n", d.text());
}

}  // namespace ptxbuilder::command
