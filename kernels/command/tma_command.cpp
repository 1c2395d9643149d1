// `ptxb tma` shows whether a tensor map is legal, and the layout of its box in shared memory.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "kernels/family/commands.h"
#include "kernels/family/outcome.h"
#include "kernels/simulate/tma.h"

namespace ptxbuilder::command::tma_command {

using Json = nlohmann::ordered_json;
using runtime::TensorMapArguments;

// Returns what is wrong with a word that should be a number of type T; "" if it is valid. CLI11 would convert
// a number that T cannot represent to a different number.
template <class T>
std::string whole(const std::string& word) {
  T value = 0;
  const char* const end = word.data() + word.size();
  auto [stop, error] = std::from_chars(word.data(), end, value);
  if (error == std::errc() && stop == end) return "";
  return fmt::format("'{}' must be a whole number from 0 to {}", word, std::numeric_limits<T>::max());
}

struct Options {
  TmaWords words;
  bool json = false;
};

Json to_json(const TensorMapArguments& map) {
  return {{"dtype", name(map.recipe.dtype)},
          {"shape", map.shape},
          {"strides", map.strides},
          {"box", map.recipe.box},
          {"element_strides", map.recipe.element_strides},
          {"swizzle", name(map.recipe.swizzle)},
          {"interleave", name(map.recipe.interleave)}};
}

Json to_json(const TmaReport& r) {
  Json json = {{"map", to_json(r.map)}, {"legal", r.breaches.empty()}, {"breaches", Json::array()}};
  for (const runtime::TensorMapBreach& b : r.breaches)
    json["breaches"].push_back(
        {{"member", b.member}, {"index", b.index}, {"nearest", b.nearest}, {"text", b.text}});
  json["nearest"] = r.nearest ? to_json(*r.nearest) : Json();
  if (const TensorMapArguments* shown = r.shown()) {
    json["box_bytes"] = box_bytes(shown->recipe);
    json["tensor_bytes"] = runtime::extent_bytes(*shown);
    json["chunks"] = Json::array();
    for (const SwizzledRow& row : swizzled_rows(shown->recipe)) json["chunks"].push_back(row.chunks);
  }
  return json;
}

std::string words(const TensorMapArguments& map) {
  const TensorMapRecipe& r = map.recipe;
  return fmt::format(
      "--dtype {} --shape {} --box {}{} --swizzle {}{}{}", name(r.dtype), fmt::join(map.shape, ","),
      fmt::join(r.box, ","),
      map.strides.empty() ? "" : fmt::format(" --strides {}", fmt::join(map.strides, ",")), name(r.swizzle),
      r.interleave == Interleave::none ? "" : fmt::format(" --interleave {}", name(r.interleave)),
      fmt::format(" --element-strides {}", fmt::join(r.element_strides, ",")));
}

int run(const Options& o) {
  const TmaReport report = examine(o.words);
  if (o.json) {
    fmt::print("{}\n", to_json(report).dump());
  } else {
    fmt::print("{}: {}\n", report.breaches.empty() ? "legal" : "NOT legal", words(report.map));
    for (const runtime::TensorMapBreach& b : report.breaches) fmt::print("  {}\n", b.text);
    if (!report.breaches.empty() && report.nearest) fmt::print("nearest: {}\n", words(*report.nearest));
    if (const TensorMapArguments* shown = report.shown()) fmt::print("{}", drawing(*shown));
  }
  return static_cast<int>(report.breaches.empty() ? Outcome::good : Outcome::wrong_result);
}

Command add(const Arguments& ptxb) {
  const Arguments app = ptxb.command("tma", "check a tensor map, and show its box in shared memory");
  auto o = std::make_shared<Options>();
  auto list = [&](const char* option, auto& to, const char* help) {
    using Number = typename std::decay_t<decltype(to)>::value_type;
    return app.option(option, to, help).by_comma().shown_as("N,N,...").check(whole<Number>);
  };
  app.option("--dtype", o->words.dtype, "type of the elements: bf16, f16, f32, e4m3, u8, ...")
      .required()
      .shown_as("TYPE");
  list("--shape", o->words.shape, "elements of the tensor, innermost dimension first").required();
  list("--strides", o->words.strides, "bytes of dimensions 1 and up; by default without gaps");
  list("--box", o->words.box, "elements of the box, innermost first").required();
  list("--element-strides", o->words.element_strides, "1 to 8; 1 by default");
  app.option("--swizzle", o->words.swizzle, "none, 32, 64 or 128").shown_as("BYTES");
  app.option("--interleave", o->words.interleave, "none, 16 or 32").shown_as("BYTES");
  app.flag("--json", o->json, "print one JSON object");
  app.footer("Exit code 0 if the map is legal, 3 if it is not.");
  return {app, [o] { return run(*o); }};
}

const CommandRegistration registration(add);

}  // namespace ptxbuilder::command::tma_command
