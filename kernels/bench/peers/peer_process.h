// Runs peers. A peer is a contender that runs in a separate process, for libraries such as JAX that cannot
// run in the benchmark's process.
//
// A peer is a program that reads requests from its standard input, one per line, and answers each with one
// line on its standard output. Words are separated by single spaces; TEXT extends to the end of the line. The
// peer exits when its input ends. If the peer fails, its standard error is shown. Descriptor 3 is a file in
// memory that the benchmark shares with the peer and resizes for each problem, so the peer must map it again
// each time. The file holds the inputs of all sets, one set after another. The inputs of a set are A and B,
// or Q, K and V, with the bytes that the benchmark's other contenders also read. Space for one output, D or
// O, follows the last set. The benchmark does not share device memory, because a container may lack the
// rights for this, and because libraries that allocate their own memory would copy the inputs anyway.
//
//   at the start      peer 1 TEXT    the protocol's number, and a description of the peer: "CUTLASS 4.2.0"
//   problem M N K A B D LAYOUT LDA LDB LDD SETS
//                     ready TEXT     the configuration that it chose: "128x256x64, cluster 2x1"; sent after
//                                  all tuning
//   attention TYPE BATCHES QUERIES KEYS HEADS KEY_HEADS DEPTH VALUE_DEPTH MASK LEFT RIGHT LENGTHS SETS
//                     ready TEXT     the answer for attention, in the same form
//   launch SET        done           sent after one launch, when its output is in the file
//   burst LAUNCHES    time US        at least this many launches back to back, over the sets in turn; US is
//                                  the GPU's microseconds per launch, measured with two events
//   any of these      refused TEXT   the reason for refusing; the next problem is sent nevertheless
//
// A, B and D are the types of the matrices: bf16 f16 tf32 e4m3 e5m2 s8 s32 f32. LAYOUT and the strides LDA,
// LDB and LDD, in elements, are defined by GemmProblem. The size of a matrix in elements is the number of its
// stored rows times its stride.
//
// TYPE, the type of Q, K, V and O, is f16 or bf16. The numbers and masks are defined by AttentionProblem, and
// the tensors have no gaps. MASK is causal or all; LEFT and RIGHT are below 0 if there is no limit; LENGTHS
// are the lengths of packed sequences, separated by commas, or - if sequences are not packed. A peer that
// supports only one operation refuses requests for the other.
#pragma once

#include <chrono>
#include <functional>
#include <span>
#include <string>

namespace ptxbuilder::bench {

// Memory that can also be mapped as a file by a process that is started later.
class SharedFile {
 public:
  SharedFile();  // initially empty; throws Error if the system cannot create it
  ~SharedFile();
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  // Changes the size, and fills the file with zeros. Throws Error if there is not enough memory.
  void resize(size_t bytes);
  std::span<std::byte> bytes() const { return bytes_; }
  int descriptor() const { return descriptor_; }

 private:
  void unmap();

  int descriptor_ = -1;
  std::span<std::byte> bytes_;
};

// A child process that receives and sends lines of text. If a call throws ContenderError, the child has
// ended.
class PeerProcess {
 public:
  // Runs `command` with sh, with `file` as descriptor 3. Throws Error if the process cannot be started.
  PeerProcess(std::string command, const SharedFile& file);
  ~PeerProcess();  // ends all processes in the child's process group
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  void send(const std::string& line);
  // Returns the next line that the process writes. If the process has ended or does not answer within
  // `limit`, throws ContenderError with the last lines of its standard error. hangs() of the exception is
  // true if the limit was exceeded.
  std::string receive(std::chrono::duration<double> limit);

  bool runs() const { return child_ > 0; }
  bool hangs() const { return hangs_; }

  // Ends the process, and throws ContenderError with `what` and the last lines of its standard error.
  [[noreturn]] void fail(const std::string& what);

 private:
  std::string end();  // ends the process; returns how it ended, such as "exit status 1"
  std::string last_words() const;

  std::string command_;
  int child_ = -1, lines_ = -1, errors_ = -1;
  bool hangs_ = false;
  std::string read_;  // text that was received after the last complete line
};

}  // namespace ptxbuilder::bench
