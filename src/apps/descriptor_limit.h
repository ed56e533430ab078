// How many descriptors this process may have open.
#pragma once

namespace quire {

// Raises it to what the system allows: every connection needs one, and the usual limit of 1,024 is
// for programs that use select().
void raise_descriptor_limit();

}  // namespace quire
