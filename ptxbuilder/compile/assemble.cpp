#include "ptxbuilder/compile/assemble.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

namespace ptxbuilder {

Assembled assemble(const Ptxas& ptxas, Cache* cache, const std::string& ptx, const AssembleOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  Assembled result;

  const auto run = [&] {
    PtxasOutput output = ptxas.assemble(ptx, options.ptxas);
    return Cache::Entry{std::move(output.cubin), std::move(output.log)};
  };
  Cache::Made made;
  if (cache) {
    const std::string arguments = fmt::format("{}", fmt::join(Ptxas::arguments(ptx, options.ptxas), " "));
    const std::string_view parts[] = {ptxas.build(), arguments, ptx};
    made = cache->load_or_make(Cache::key(parts), run);
  } else {
    made.entry = run();
  }
  result.from_cache = made.from_cache;
  result.cache_problem = std::move(made.problem);
  result.cubin = std::move(made.entry.cubin);
  result.log = std::move(made.entry.log);
  result.notes = parse_notes(result.log, ptx);
  result.registers = result.notes.registers();
  result.spill_bytes = result.notes.spill_bytes();
  result.stack_bytes = result.notes.stack_bytes();
  result.defects = possible_defects(ptx, ptxas.version());
  std::erase_if(result.defects, [&](const PossibleDefect& d) {
    return std::ranges::find(options.waived, d.defect.name) != options.waived.end();
  });
  if (options.made) options.made(result);
  check(result.notes, options.waived);
  result.milliseconds =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return result;
}

std::vector<std::variant<Assembled, Error>> try_assemble_all(const Ptxas& ptxas, Cache* cache,
                                                             std::span<const AssembleJob> jobs,
                                                             unsigned threads) {
  std::vector<std::variant<Assembled, Error>> results(jobs.size());
  std::atomic<size_t> next = 0;
  auto work = [&] {
    for (size_t i = next++; i < jobs.size(); i = next++) {
      try {
        results[i] = assemble(ptxas, cache, jobs[i].ptx, jobs[i].options);
      } catch (const Error& error) {
        results[i] = error;
      } catch (const std::exception& error) {  // the error must not escape from the thread
        results[i] = Error(error.what());
      }
    }
  };
  if (threads == 0) threads = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::jthread> others;
  for (size_t i = 1; i < std::min<size_t>(threads, jobs.size()); ++i) others.emplace_back(work);
  work();
  others.clear();  // the destructors join the threads
  return results;
}

std::vector<Assembled> assemble_all(const Ptxas& ptxas, Cache* cache, std::span<const AssembleJob> jobs,
                                    unsigned threads) {
  std::vector<Assembled> results;
  std::string failures;
  size_t failed = 0;
  for (auto& result : try_assemble_all(ptxas, cache, jobs, threads)) {
    if (auto* assembled = std::get_if<Assembled>(&result)) {
      results.push_back(std::move(*assembled));
    } else {
      ++failed;
      failures += fmt::format("\n{}", std::get<Error>(result).what());
    }
  }
  if (failed > 0) throw Error(fmt::format("{} of {} kernels failed:{}", failed, jobs.size(), failures));
  return results;
}

}  // namespace ptxbuilder
