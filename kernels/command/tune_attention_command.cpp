// `ptxb tune attention`: measures the tiles that attention may have for one size or several.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "kernels/attention/attention.h"
#include "kernels/family/commands.h"
#include "kernels/measure/burst.h"
#include "kernels/measure/interleave.h"
#include "kernels/measure/random_matrix.h"
#include "kernels/measure/statistics.h"

namespace ptxbuilder::bench::tune_attention_command {

using kernels::AttentionArguments;
using kernels::AttentionTile;

struct Words {
  std::string dtype = "f16";
  std::vector<int64_t> queries, keys, batches;
  AttentionArguments arguments;
  std::vector<std::string> tiles;
  MethodOptions method;
  LoadOptions compiler;
  bool only = false, json = false, no_cache = false;
  std::optional<uint64_t> seed;
};

// One tile of one size, and what came of it.
struct Candidate {
  AttentionTile tile;
  bool chosen = false;
  double predicted = 0;  // microseconds
  std::vector<double> samples = {};
  std::string problem = "";  // why it was not timed

  double microseconds() const { return samples.empty() ? 0 : median(samples); }
};

// N(0,1) on the GPU, of which the host knows every element.
struct Tensor {
  Tensor(const Gpu& gpu, const RandomBlock& from, int64_t elements, std::mt19937_64& random)
      : block(from),
        contents(static_cast<size_t>(elements), random),
        buffer(gpu.device(), static_cast<size_t>(elements * size_of(from.type()))) {
    contents.write(gpu, block, buffer.address());
  }
  double operator[](int64_t i) const { return contents.value(block, static_cast<size_t>(i)); }

  const RandomBlock& block;
  RandomContents contents;
  runtime::Buffer buffer;
};

// The tensors of one size, and some rows of O in float64.
class Problem {
 public:
  Problem(const Gpu& gpu, const RandomBlock& block, const AttentionArguments& p, uint64_t seed)
      : p_(p),
        random_(seed),
        q_(gpu, block, p.batches * p.queries * p.heads * p.depth, random_),
        k_(gpu, block, p.batches * p.keys * p.key_heads * p.depth, random_),
        v_(gpu, block, p.batches * p.keys * p.key_heads * p.value_depth, random_),
        o_(gpu.device(), static_cast<size_t>(p.batches * p.queries * p.heads * p.value_depth * 2)) {
    p_.q.memory = q_.buffer;
    p_.k.memory = k_.buffer;
    p_.v.memory = v_.buffer;
    p_.o.memory = o_;
    for (int i = 0; i < kRows; ++i) rows_.push_back(expected_row());
  }

  const AttentionArguments& arguments() const { return p_; }
  void poison() { o_.fill(0xff); }

  // "" where the rows of O are right.
  std::string compare() const {
    const auto columns = static_cast<size_t>(p_.value_depth);
    std::vector<uint16_t> got(columns);
    for (const Row& row : rows_) {
      o_.copy_out(got, row.index * columns * 2);
      for (size_t c = 0; c < columns; ++c) {
        const double value = decode(p_.type, got[c]);
        if (!(std::abs(value - row.values[c]) <= row.tolerance))
          return fmt::format("row {}, column {}: {} is not {}", row.index, c, value, row.values[c]);
      }
    }
    return "";
  }

 private:
  static constexpr int kRows = 24;
  struct Row {
    size_t index = 0;
    std::vector<double> values;
    double tolerance = 0;
  };

  Row expected_row() {
    const auto draw = [&](int64_t count) {
      return std::uniform_int_distribution<int64_t>(0, count - 1)(random_);
    };
    const int64_t b = draw(p_.batches), h = draw(p_.heads), i = draw(p_.queries),
                  shared = h / (p_.heads / p_.key_heads), offset = p_.keys - p_.queries;
    const int64_t index = (b * p_.queries + i) * p_.heads + h;
    const int64_t right = p_.causal ? 0 : p_.right;
    const int64_t end = right < 0 ? p_.keys : std::clamp<int64_t>(i + offset + right + 1, 0, p_.keys),
                  first = p_.left < 0 ? 0 : std::clamp<int64_t>(i + offset - p_.left, 0, end);
    const auto key = [&](int64_t j) { return (b * p_.keys + j) * p_.key_heads + shared; };
    std::vector<double> weights;
    for (int64_t j = first; j < end; ++j) {
      double score = 0;
      for (int64_t c = 0; c < p_.depth; ++c) score += q_[index * p_.depth + c] * k_[key(j) * p_.depth + c];
      weights.push_back(score / std::sqrt(static_cast<double>(p_.depth)));
    }
    const double most = weights.empty() ? 0 : *std::ranges::max_element(weights);
    double sum = 0, magnitude = 0;
    for (double& w : weights) sum += w = std::exp(w - most);
    Row row = {static_cast<size_t>(index), std::vector<double>(static_cast<size_t>(p_.value_depth)), 0};
    for (int64_t j = first; j < end; ++j)
      for (int64_t c = 0; c < p_.value_depth; ++c) {
        const double term = weights[static_cast<size_t>(j - first)] / sum * v_[key(j) * p_.value_depth + c];
        row.values[static_cast<size_t>(c)] += term;
        magnitude = std::max(magnitude, std::abs(row.values[static_cast<size_t>(c)]));
      }
    row.tolerance = unit_roundoff(p_.type) * (2 * magnitude + 1);
    return row;
  }

  AttentionArguments p_;
  std::mt19937_64 random_;
  Tensor q_, k_, v_;
  runtime::Buffer o_;
  std::vector<Row> rows_;
};

// Two for each multiplication of Q by K and of weights by V, of the pairs that the mask leaves.
double flops(const AttentionArguments& p) {
  const int64_t offset = p.keys - p.queries, right = p.causal ? 0 : p.right;
  double pairs = 0;
  for (int64_t i = 0; i < p.queries; ++i) {
    const int64_t end = right < 0 ? p.keys : std::clamp<int64_t>(i + offset + right + 1, 0, p.keys),
                  first = p.left < 0 ? 0 : std::clamp<int64_t>(i + offset - p.left, 0, end);
    pairs += static_cast<double>(end - first);
  }
  return 2 * pairs * static_cast<double>((p.depth + p.value_depth) * p.heads * p.batches);
}

// The kernels of tiles, kept for the sizes that follow.
using Calls = std::map<std::string, std::unique_ptr<kernels::Attention>>;

// The kernels of all candidates, on all cores.
void compile(const Gpu& gpu, const Words& w, const AttentionArguments& p, const std::vector<Candidate>& all,
             Calls& calls) {
  std::vector<kernels::Attention*> wanted;
  for (const Candidate& c : all) {
    std::unique_ptr<kernels::Attention>& call = calls[text(c.tile)];
    if (!call) {
      kernels::AttentionOptions options;
      options.compiler = w.compiler;
      options.choose = [tile = c.tile](const auto&, const auto&, int) { return tile; };
      call = std::make_unique<kernels::Attention>(gpu.device(), std::move(options));
    }
    wanted.push_back(call.get());
  }
  std::atomic<size_t> next = 0;
  std::vector<std::jthread> threads;
  for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i)
    threads.emplace_back([&] {
      for (size_t at = next++; at < wanted.size(); at = next++) try {
          wanted[at]->workspace_bytes(p);
        } catch (const Error&) {  // which its launch says again
        }
    });
}

std::vector<Candidate> measure(const Gpu& gpu, const Words& w, const AttentionArguments& p,
                               const RandomBlock& block, Calls& calls) {
  Problem problem(gpu, block, p, w.method.seed);
  // What the choice is asked for, caught from a call.
  std::vector<Candidate> all;
  kernels::AttentionOptions ask;
  ask.compiler = w.compiler;
  ask.choose = [&](const auto& operation, const auto& size, int multiprocessors) {
    const AttentionTile chosen = kernels::choose_attention(operation, size, multiprocessors);
    std::vector<AttentionTile> tiles;
    if (!w.only) tiles = kernels::attention_candidates(operation, size);
    for (const std::string& word : w.tiles) tiles.push_back(kernels::parse_attention_tile(word));
    for (const AttentionTile& tile : tiles)
      if (std::ranges::none_of(all, [&](const Candidate& c) { return c.tile == tile; }))
        all.push_back({tile, tile == chosen, kernels::predict(operation, size, tile, multiprocessors)});
    return chosen;
  };
  kernels::Attention(gpu.device(), ask).workspace_bytes(problem.arguments());

  compile(gpu, w, problem.arguments(), all, calls);
  std::vector<size_t> timed;
  std::vector<std::unique_ptr<Burst>> bursts;
  for (size_t i = 0; i < all.size(); ++i) {
    Candidate& c = all[i];
    try {
      const std::unique_ptr<kernels::Attention>& call = calls[text(c.tile)];
      const auto launch = [&](size_t) { (*call)(problem.arguments()); };
      problem.poison();
      launch(0);
      gpu.device().synchronize();
      c.problem = problem.compare();
      if (!c.problem.empty()) continue;
      const double once = estimate(gpu, 1, launch);
      const double wanted = w.method.burst_milliseconds * 1000 / once;
      bursts.push_back(
          std::make_unique<Burst>(gpu, 1, static_cast<size_t>(std::max(1.0, wanted)), once, launch));
      timed.push_back(i);
    } catch (const runtime::TimeoutError&) {
      throw;
    } catch (const Error& e) {
      c.problem = e.what();
    }
  }
  const auto sample = [&](size_t i) {
    Sample s;
    s.microseconds = bursts[i]->run();
    return s;
  };
  const auto samples =
      interleave(bursts.size(), w.method.rounds, w.method.seed, sample, [] { return false; });
  for (size_t i = 0; i < timed.size(); ++i)
    for (const Sample& s : samples[i]) all[timed[i]].samples.push_back(s.microseconds);
  std::ranges::stable_sort(
      all, {}, [](const Candidate& c) { return c.samples.empty() ? INFINITY : c.microseconds(); });
  return all;
}

void print(const AttentionArguments& p, const std::vector<Candidate>& all) {
  fmt::print("attention of {}, {} x {} queries and {} keys, {} heads on {}, depth {} and {}{}\n",
             name(p.type), p.batches, p.queries, p.keys, p.heads, p.key_heads, p.depth, p.value_depth,
             p.causal ? ", causal" : "");
  fmt::print("  {:<26}{:>10}{:>10}{:>12}\n", "tile", "us", "TFLOP/s", "predicted");
  for (const Candidate& c : all) {
    if (c.samples.empty())
      fmt::print("{} {:<26}{}\n", c.chosen ? '*' : ' ', text(c.tile), c.problem);
    else
      fmt::print("{} {:<26}{:>10.2f}{:>10.1f}{:>12.2f}\n", c.chosen ? '*' : ' ', text(c.tile),
                 c.microseconds(), flops(p) / c.microseconds() * 1e-6, c.predicted);
  }
  fmt::print("* what is chosen now\n");
}

nlohmann::json as_json(const AttentionArguments& p, const std::vector<Candidate>& all) {
  nlohmann::json tiles = nlohmann::json::array();
  for (const Candidate& c : all) {
    nlohmann::json one = {{"tile", text(c.tile)}, {"chosen", c.chosen}, {"predicted_us", c.predicted}};
    if (c.samples.empty())
      one["problem"] = c.problem;
    else
      one["us"] = c.microseconds(), one["low_us"] = quantile(c.samples, 0.25),
      one["high_us"] = quantile(c.samples, 0.75), one["tflops"] = flops(p) / c.microseconds() * 1e-6;
    tiles.push_back(one);
  }
  return {{"type", std::string(name(p.type))},
          {"batches", p.batches},
          {"queries", p.queries},
          {"keys", p.keys},
          {"heads", p.heads},
          {"key_heads", p.key_heads},
          {"depth", p.depth},
          {"value_depth", p.value_depth},
          {"causal", p.causal},
          {"left", p.left},
          {"right", p.right},
          {"tiles", tiles}};
}

int run(const Words& words) {
  Words w = words;
  AttentionArguments& p = w.arguments;
  p.type = *dtype_from_name(w.dtype);
  if (p.key_heads == 0) p.key_heads = p.heads;
  if (p.value_depth == 0) p.value_depth = p.depth;
  if (w.keys.empty()) w.keys = w.queries;
  if (w.batches.empty()) w.batches.assign(w.queries.size(), 1);
  if (w.keys.size() != w.queries.size() || w.batches.size() != w.queries.size())
    throw Error(
        fmt::format("{} lengths of queries, {} of keys and {} numbers of batches: give as many of each",
                    w.queries.size(), w.keys.size(), w.batches.size()));
  if (p.key_heads < 1 || p.heads % p.key_heads != 0)
    throw Error(fmt::format("--heads {} is no multiple of --key-heads {}", p.heads, p.key_heads));
  w.method.seed = w.seed ? *w.seed : std::random_device()();
  w.compiler.cache = !w.no_cache;
  const Gpu gpu;
  const RandomBlock block(gpu, p.type, w.method.seed);
  Calls calls;
  nlohmann::json sizes = nlohmann::json::array();
  bool wrong = false;
  for (size_t i = 0; i < w.queries.size(); ++i) {
    p.queries = w.queries[i], p.keys = w.keys[i], p.batches = w.batches[i];
    const std::vector<Candidate> all = measure(gpu, w, p, block, calls);
    wrong =
        wrong || std::ranges::any_of(all, [](const Candidate& c) { return c.problem.starts_with("row "); });
    if (w.json)
      sizes.push_back(as_json(p, all));
    else
      print(p, all);
  }
  if (w.json) fmt::print("{}\n", sizes.dump(1));
  return wrong ? 3 : 0;
}

command::Command add(const command::Arguments& tune) {
  const command::Arguments app = tune.command("attention", "all tiles of attention, for one size or several");
  auto words = std::make_shared<Words>();
  Words& w = *words;
  AttentionArguments& p = w.arguments;
  p.heads = 16;
  app.option("--queries", w.queries, "rows of a head of Q; several with commas between")
      .required()
      .by_comma();
  app.option("--keys", w.keys, "rows of a head of K and V; as --queries unless given").by_comma();
  app.option("--batches", w.batches, "of each; 1 unless given").by_comma();
  const auto count = [&](const char* option, int64_t& value, int64_t most, const char* help) {
    app.option(option, value, help).from(int64_t{1}, most);
  };
  count("--heads", p.heads, 1 << 16, "of Q, of a batch; 16 unless given");
  count("--key-heads", p.key_heads, 1 << 16, "of K and V; as --heads unless given");
  count("--depth", p.depth, 256, "columns of Q and K; 128 unless given");
  count("--value-depth", p.value_depth, 256, "columns of V and O; as --depth unless given");
  app.flag("--causal", p.causal, "a query sees the keys up to its own, the last one all");
  app.option("--left", p.left, "how many keys before its own a query sees; all unless given")
      .from(int64_t{0}, int64_t{1} << 30);
  app.option("--dtype", w.dtype, "of Q, K, V and O").among({"f16", "bf16"}).with_default();
  app.option("--tile", w.tiles, "another tile, such as 128x176_2_turns; may be said again");
  app.flag("--only", w.only, "of these tiles alone");
  app.option("--rounds", w.method.rounds, "in each of which all tiles run once")
      .from(1, 10000)
      .with_default();
  app.option("--burst-ms", w.method.burst_milliseconds,
             "that launches follow each other in a round, at least")
      .from(0.1, 10000.0)
      .with_default();
  app.option("--seed", w.seed, "of data and order; fresh unless given");
  app.option("--ptxas", w.compiler.ptxas, "the ptxas to take; else PATH, CUDA_PATH, /usr/local");
  app.flag("--driver-assembles", w.compiler.driver_assembles,
           "compile PTX by the driver, though there is a ptxas");
  app.flag("--no-cache", w.no_cache, "assemble anew, and keep nothing");
  app.flag("--json", w.json, "as JSON");
  return {app, [words] { return run(*words); }};
}

const command::CommandRegistration registration(add, "tune");

}  // namespace ptxbuilder::bench::tune_attention_command
