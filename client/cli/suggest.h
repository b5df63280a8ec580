// "Did you mean": the known word closest to a mistyped one.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace embedding::client {

// Insertions, deletions, replacements and swaps of neighbours that turn a into b (optimal string alignment distance).
size_t EditDistance(const std::string& a, const std::string& b);

// The closest candidate within two edits, the first of equals; empty if none is that close.
std::string Suggestion(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace embedding::client
