// This file replaces helpers for tests. They import the fake clients of all API groups.

package generic
