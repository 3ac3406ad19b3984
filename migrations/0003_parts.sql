-- breaking: yes
-- 0003_parts: what a task has beside its row, so that nobody looks for what is not there.
--
-- A program that does not know the marks would add a result or a tag without setting them.

-- 1: a row in task_body, 2: tags, 4: it needs other tasks, 8: other tasks need it. A mark that is not set is a
-- promise; one that is set only says that it is worth looking. Tasks from before have all of them.
ALTER TABLE task ADD COLUMN parts INTEGER NOT NULL DEFAULT 15;
