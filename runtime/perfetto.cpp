#include "runtime/perfetto.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <set>

namespace ptxbuilder::runtime {
namespace {

// A protocol buffer message: consecutive fields, each with its number and wire type.
class Message {
 public:
  Message& number(uint32_t field, uint64_t value) {
    key(field, 0);
    varint(value);
    return *this;
  }
  Message& real(uint32_t field, double value) {
    key(field, 1);
    for (auto bits = std::bit_cast<uint64_t>(value), i = uint64_t{0}; i < 8; ++i)
      bytes_ += static_cast<char>(bits >> (8 * i) & 0xff);
    return *this;
  }
  Message& text(uint32_t field, std::string_view value) {
    key(field, 2);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  Message& message(uint32_t field, const Message& value) { return text(field, value.bytes_); }

  const std::string& bytes() const { return bytes_; }

 private:
  void key(uint32_t field, uint32_t wire_type) { varint(field << 3 | wire_type); }
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>((value & 0x7f) | 0x80);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

// The numbers of the fields, grouped by message (perfetto/trace/trace.proto and the files that it imports).
namespace trace {
constexpr uint32_t packet = 1;
}
namespace packet {
constexpr uint32_t timestamp = 8, sequence = 10, track_event = 11, interned_data = 12, sequence_flags = 13,
                   track_descriptor = 60;
constexpr uint64_t state_is_cleared = 1, needs_state = 2;
}  // namespace packet
namespace descriptor {
constexpr uint32_t uuid = 1, name = 2, process = 3, parent = 5;
constexpr uint32_t pid = 1, process_name = 6;  // fields of the process descriptor
}  // namespace descriptor
namespace event {
constexpr uint32_t annotations = 4, type = 9, name_iid = 10, track = 11;
constexpr uint64_t slice_begin = 1, slice_end = 2, instant = 3;
constexpr uint32_t real_value = 5, annotation_name = 10;  // fields of an annotation
}  // namespace event
namespace interned {
constexpr uint32_t event_names = 2, iid = 1, name = 2;
}

constexpr uint64_t kSequence = 1;

class Writer {
 public:
  void names(const std::vector<std::string>& names) {
    Message all;
    for (size_t i = 0; i < names.size(); ++i)
      all.message(interned::event_names,
                  Message().number(interned::iid, i + 1).text(interned::name, names[i]));
    add(Message()
            .number(packet::sequence_flags, packet::state_is_cleared)
            .message(packet::interned_data, all));
  }

  void process(uint32_t sm) {
    if (!seen_.insert(sm).second) return;
    const Message process = Message()
                                .number(descriptor::pid, uint64_t{sm} + 1)
                                .text(descriptor::process_name, fmt::format("multiprocessor {}", sm));
    add(Message().message(
        packet::track_descriptor,
        Message().number(descriptor::uuid, process_uuid(sm)).message(descriptor::process, process)));
  }

  void track(uint64_t uuid, const std::string& name, uint32_t sm) {
    add(Message().message(packet::track_descriptor, Message()
                                                        .number(descriptor::uuid, uuid)
                                                        .text(descriptor::name, name)
                                                        .number(descriptor::parent, process_uuid(sm))));
  }

  void event(uint64_t track, uint64_t type, double time, std::optional<uint32_t> name,
             std::optional<double> value = std::nullopt) {
    Message event;
    event.number(event::type, type).number(event::track, track);
    if (name) event.number(event::name_iid, *name + 1);
    if (value)
      event.message(event::annotations,
                    Message().text(event::annotation_name, "value").real(event::real_value, *value));
    add(Message()
            .number(packet::timestamp, static_cast<uint64_t>(std::llround(std::max(0.0, time))))
            .number(packet::sequence_flags, packet::needs_state)
            .message(packet::track_event, event));
  }

  std::string take() { return std::move(trace_); }

 private:
  static uint64_t process_uuid(uint32_t sm) { return (uint64_t{1} << 40) + sm; }

  void add(Message packet) {
    packet.number(packet::sequence, kSequence);
    trace_ += Message().message(trace::packet, packet).bytes();
  }

  std::string trace_;
  std::set<uint32_t> seen_;
};

// Writes the slices of a warp in order of time. An inner slice begins after its outer slice and ends before
// it.
void write_regions(Writer& writer, uint64_t track, const std::vector<Profile::Region>& regions) {
  std::vector<const Profile::Region*> open;
  auto close = [&](int depth) {
    for (; static_cast<int>(open.size()) > depth; open.pop_back())
      writer.event(track, event::slice_end, open.back()->end, std::nullopt);
  };
  for (const Profile::Region& region : regions) {
    close(region.depth);
    writer.event(track, event::slice_begin, region.begin, region.name);
    open.push_back(&region);
  }
  close(0);
}

// Writes spans. Spans with the same name and CTA that are open at once get separate tracks, because slices on
// one track must nest.
void write_spans(Writer& writer, uint64_t& uuid, const Profile& profile) {
  std::map<std::pair<uint32_t, uint32_t>, std::vector<std::pair<uint64_t, double>>> tracks;  // last ends
  std::map<uint32_t, uint32_t> multiprocessors;
  for (const Profile::Track& track : profile.tracks) multiprocessors[track.cta] = track.sm;
  std::map<uint64_t, std::vector<const Profile::Span*>> slices;
  for (const Profile::Span& span : profile.spans) {
    auto& known = tracks[{span.cta, span.name}];
    auto free =
        std::find_if(known.begin(), known.end(), [&](const auto& t) { return t.second <= span.begin; });
    if (free == known.end()) {
      known.emplace_back(++uuid, 0);
      free = known.end() - 1;
      const uint32_t sm = multiprocessors.at(span.cta);
      writer.process(sm);
      writer.track(uuid, fmt::format("CTA {}, {} {}", span.cta, profile.names[span.name], known.size()), sm);
    }
    free->second = span.end;
    slices[free->first].push_back(&span);
  }
  for (const auto& [track, of_track] : slices)
    for (const Profile::Span* span : of_track) {
      writer.event(track, event::slice_begin, span->begin, span->name, span->number);
      writer.event(track, event::slice_end, span->end, std::nullopt);
    }
}

}  // namespace

std::string perfetto_trace(const Profile& profile) {
  Writer writer;
  writer.names(profile.names);
  uint64_t uuid = 0;
  for (const Profile::Track& track : profile.tracks) {
    writer.process(track.sm);
    std::string name = fmt::format("CTA {} warp {}", track.cta, track.warp);
    if (track.role >= 0) name += ", " + profile.roles[static_cast<size_t>(track.role)];
    writer.track(++uuid, name, track.sm);
    write_regions(writer, uuid, track.regions);
    for (const Profile::Mark& mark : track.marks)
      writer.event(uuid, event::instant, mark.time, mark.name, mark.value);
  }
  write_spans(writer, uuid, profile);
  return writer.take();
}

}  // namespace ptxbuilder::runtime
