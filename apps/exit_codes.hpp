#pragma once

/// What `baton` returns to the shell; `baton --help` lists them.
namespace baton::apps::exit_code {

inline constexpr int success = 0;
inline constexpr int failed = 1;         ///< it ran and the outcome is bad, or it broke on the way
inline constexpr int usage = 2;          ///< arguments or a deployment file that cannot be
inline constexpr int cannot_start = 3;   ///< a part did not start, or nobody answers
inline constexpr int interrupted = 130;  ///< ended by the user before it was done

}  // namespace baton::apps::exit_code
