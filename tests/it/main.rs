//! The tests of the program as a whole, in one binary; a file a subject.

mod job_files;
