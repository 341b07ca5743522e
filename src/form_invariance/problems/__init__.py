"""Problems: operators and operand pairs, and the prompts, answers and tokens made from them."""
