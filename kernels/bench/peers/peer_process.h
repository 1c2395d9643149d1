// A contender in its own process: a library that cannot run in the benchmark's process, such as JAX.
//
// A peer is a program that reads requests from its standard input, one per line, and answers each with one
// line on its standard output. Words are separated by single spaces; TEXT extends to the end of a line. The
// peer exits when its input ends. Its standard error is shown if it fails. Descriptor 3 is a file in memory
// that the benchmark shares with the peer and resizes for each problem, so the peer must map it again each
// time. The file holds the inputs of all sets, one set after another, A and then B, or Q, K and V, with the
// same bytes that the benchmark's other contenders read, followed by room for one output, D or O. The
// benchmark does not share its own device memory, because sharing needs rights that a container may not have,
// and libraries that allocate their own memory copy the inputs anyway.
//
//   at the start      peer 1 TEXT    the protocol's number, and what the peer is: "CUTLASS 4.2.0"
//   problem M N K A B D LAYOUT LDA LDB LDD SETS
//                     ready TEXT     what it chose, after all tuning: "128x256x64, cluster 2x1"
//   attention TYPE BATCHES QUERIES KEYS HEADS KEY_HEADS DEPTH VALUE_DEPTH MASK LEFT RIGHT LENGTHS SETS
//                     ready TEXT     the same for attention
//   launch SET        done           one launch; its output is in the file
//   burst LAUNCHES    time US        at least this many launches back to back, over the sets in turn: the
//                                  microseconds of one, between two events, without the host's part
//   any of these      refused TEXT   why it cannot; the next problem is sent nevertheless
//
// A, B and D are types: bf16 f16 tf32 e4m3 e5m2 s8 s32 f32. LAYOUT and the strides LDA, LDB and LDD, in
// elements, are those of GemmProblem; a matrix occupies its stored rows times its stride.
//
// TYPE, the type of Q, K, V and O, is f16 or bf16. The numbers and masks are those of AttentionProblem, whose
// tensors have no gaps. MASK is causal or all; LEFT and RIGHT are below 0 if there is no limit; LENGTHS are
// the lengths of packed sequences, separated by commas, or -. A peer for one operation refuses requests that
// it does not know.
#pragma once

#include <chrono>
#include <functional>
#include <span>
#include <string>

namespace ptxbuilder::bench {

// Memory that a process, started later, maps as a file.
class SharedFile {
 public:
  SharedFile();  // initially empty; throws Error if the system cannot create it
  ~SharedFile();
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  // Replaces the contents with zeros, in a new size. Throws Error if there is not enough memory.
  void resize(size_t bytes);
  std::span<std::byte> bytes() const { return bytes_; }
  int descriptor() const { return descriptor_; }

 private:
  void unmap();

  int descriptor_ = -1;
  std::span<std::byte> bytes_;
};

// A child process, and the lines to and from it. If a call throws ContenderError, the child has ended.
class PeerProcess {
 public:
  // Runs `command` with sh, with `file` as its descriptor 3. Throws Error if it cannot be started.
  PeerProcess(std::string command, const SharedFile& file);
  ~PeerProcess();  // ends the process, and all processes in its group
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  void send(const std::string& line);
  // Returns the next line of its answers. If it has ended or does not answer within `limit`, throws
  // ContenderError with the last lines of its standard error; in the latter case hangs() is true.
  std::string receive(std::chrono::duration<double> limit);

  bool runs() const { return child_ > 0; }
  bool hangs() const { return hangs_; }

  // Ends the process, and throws ContenderError with `what` and the last lines of its standard error.
  [[noreturn]] void fail(const std::string& what);

 private:
  std::string end();  // returns how it ended, such as "exit status 1"
  std::string last_words() const;

  std::string command_;
  int child_ = -1, lines_ = -1, errors_ = -1;
  bool hangs_ = false;
  std::string read_;  // what was received after the last line
};

}  // namespace ptxbuilder::bench
