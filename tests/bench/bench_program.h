// What programs share that a driver asks in turns: they print a first line, then answer each line of stdin with a line.
#pragma once

#include <cerrno>
#include <chrono>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

namespace embedding::bench {

using Clock = std::chrono::steady_clock;
using Ids = std::vector<std::vector<int64_t>>;  // of the neighbours of each query

[[noreturn]] inline void Die(const std::string& why) {
  std::fprintf(stderr, "%s: %s\n", program_invocation_short_name, why.c_str());
  std::exit(1);
}

// Prints a line, at once.
[[gnu::format(printf, 1, 2)]] inline void Say(const char* format, ...) {
  va_list values;
  va_start(values, format);
  std::vprintf(format, values);
  va_end(values);
  std::putchar('\n');
  std::fflush(stdout);
}

// The next word of stdin, a number; not to be below `least`.
template <typename T>
T NextNumber(T least) {
  T number{};
  if (!(std::cin >> number) || number < least) Die("bad command");
  return number;
}

inline double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// to: room for `size` bytes, which must be all of the file.
inline void ReadFile(const std::string& path, char* to, size_t size) {
  std::ifstream file(path, std::ios::binary);
  if (!file.read(to, static_cast<std::streamsize>(size)) || file.peek() != EOF) Die(path + " has another size");
}

// [count, dim] raw little-endian F32.
inline std::vector<float> ReadVectors(const std::string& path, int64_t count, int64_t dim) {
  std::vector<float> vectors(static_cast<size_t>(count * dim));
  ReadFile(path, reinterpret_cast<char*>(vectors.data()), vectors.size() * sizeof(float));
  return vectors;
}

// As JSON.
inline std::string ListOf(const Ids& ids) {
  std::string list = "[";
  for (const auto& of_query : ids) {
    list += list.size() == 1 ? "[" : ",[";
    for (size_t i = 0; i < of_query.size(); ++i) list.append(i == 0 ? "" : ",").append(std::to_string(of_query[i]));
    list += "]";
  }
  return list += "]";
}

// Of a server: tells the address, then waits until stdin ends.
inline void ServeUntilStdinEnds(int port) {
  Say("127.0.0.1:%d", port);
  while (std::getchar() != EOF) {
  }
}

}  // namespace embedding::bench
