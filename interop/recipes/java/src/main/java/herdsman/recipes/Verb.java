package herdsman.recipes;

import java.util.List;

/** What is done for one command. It gives the words of the answer, or throws. */
@FunctionalInterface
interface Verb {
    List<?> run(Command command) throws Exception;

    /** The answer of a verb that has nothing to tell. */
    List<?> DONE = List.of();
}
